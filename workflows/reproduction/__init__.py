"""The paper, done again: its experiments as studies, and a page that puts our figures beside its own.

sizes        how much of it: all, or a quick look
sets         the paper's data, prepared for it
lab          runs studies one after the other and hands out what their trials measured
experiments  one module for each: which trials, which tables and pictures, what they say
claims       the paper's claims, and what becomes of them here
results      what was measured, as Parquet: the page is made of nothing else
page         docs/reproduction.md and its pictures
"""
