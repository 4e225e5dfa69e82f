"""The study: Optuna proposes, a backend runs, the ledger keeps, and a Pareto front comes out."""
