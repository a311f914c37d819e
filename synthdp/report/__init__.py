"""A page about one release, made from the release alone: publishable, self-contained, without network or script."""

from synthdp.report.page import report_page as report_page
