"""The one TLS context of the process, which every HTTP client shares.

A context reads all certificates of the system, which takes about 20 ms and 0.8 MiB. It is made with the first
client and then stays as it is: the variables `SSL_CERT_FILE` and `SSL_CERT_DIR` count at that moment.
"""

import ssl
from functools import cache

import httpx2


@cache
def tls_context() -> ssl.SSLContext:
    """The context that checks certificates; not to be changed.

    Raises:
        OSError: The certificates that a variable names cannot be read. The next call tries again.
    """
    return httpx2.create_ssl_context()
