"""Estimators in the style of scikit-learn, the main interface of the library; they do no computations themselves."""
