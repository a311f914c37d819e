"""The page of data stewards: `synthdp page FOLDER`.  A server of this machine alone, which never holds a row.

`guard` says who may ask, `app` what each screen shows, `project` what was answered so far, `jobs` starts the child
processes that `work` runs in: only they read rows.
"""
