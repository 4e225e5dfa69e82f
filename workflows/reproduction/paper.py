"""What the paper reports: Qaadan and Glasmachers, Multi-Merge Budget Maintenance for Stochastic Gradient Descent SVM
Training, 2018. Its times are those of another machine and an older code: ratios compare, seconds do not."""

MERGING = {
    "cascade": {
        120: (10.562, 0.7632),
        600: (27.222, 0.8297),
        1200: (53.362, 0.8336),
        1800: (79.896, 0.8404),
        2500: (109.922, 0.8398),
    },
    "gradient": {
        120: (6.042, 0.7632),
        600: (25.982, 0.8330),
        1200: (50.641, 0.8369),
        1800: (75.560, 0.8404),
        2500: (96.686, 0.8394),
    },
}
"""Table 1, ADULT, M = 3, one epoch: seconds and test accuracy by budget."""

DATA_SETS = {
    "phishing": (8_315, 68, 0.9755),
    "web": (17_188, 300, 0.9880),
    "adult": (32_561, 123, 0.8482),
    "ijcnn": (49_990, 22, 0.9877),
    "skin": (164_788, 3, 0.9896),
}
"""Table 2: rows, features, and the exact model's test accuracy."""

PARAMETER_STUDY = {
    (2.0, 2.0): (0.96349, 1_367),
    (2.0, 8.0): (0.975904, 2_852),
    (2.0, 32.0): (0.972983, 5_073),
    (8.0, 2.0): (0.969697, 1_191),
    (8.0, 8.0): (0.975173, 2_751),
    (8.0, 32.0): (0.972983, 5_073),
    (32.0, 2.0): (0.971522, 1_106),
    (32.0, 8.0): (0.974804, 2_756),
    (32.0, 32.0): (0.972983, 5_073),
}
"""Figure 5, PHISHING: the exact model's accuracy and number of support vectors by C and gamma."""
