"""The web page of data stewards: `synthdp page FOLDER`, a server on this machine that never holds a row itself.

`guard` refuses foreign requests.  `site`, `prepare` and `outcome` answer requests for screens and forms.  `project`
stores the answers, and `jobs` starts child processes that run `work`.  Only the child processes read rows.
"""
