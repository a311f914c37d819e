"""What scikit-learn's users see: estimators without arithmetic."""
