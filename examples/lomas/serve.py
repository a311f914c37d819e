"""Run a lomas server that knows synthdp: ``python serve.py config.yaml secrets.yaml``."""

import sys

import uvicorn
from lomas_server.utils.config import CONFIG_LOADER

CONFIG_LOADER.load_config(*sys.argv[1:])

from lomas_server.app import app  # noqa: E402  the application reads the configuration while it starts
from lomas_synthdp import router  # noqa: E402

app.include_router(router)
server = CONFIG_LOADER.get_config().server
uvicorn.run(app, host=server.host_ip, port=server.host_port, log_level=server.log_level)
