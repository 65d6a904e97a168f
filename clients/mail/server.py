"""A mail server for the tests: server.py SPOOL CERT KEY

It takes mail on two ports of this machine, which it prints: one in the clear, and one that asks for STARTTLS and a login. Every mail it takes
is a file in SPOOL: a line of JSON with the sender and the recipients, then the mail as it arrived. The name before the @ says how it behaves:
`unknown` and `later` are refused, `full` refuses the message, `silent` never answers, `gone` hangs up.
"""

import asyncio
import itertools
import json
import os
import ssl
import sys
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

LOGIN = LoginPassword(b"countersign", b"open sesame")
MAIL_BYTES_MAX = 1_000_000


class Spool:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.numbers = itertools.count()

    async def handle_RCPT(self, server, session, envelope, address, options):
        name = address.split("@")[0]
        if name == "unknown":
            return "550 5.1.1 there is nobody of this name"
        if name == "later":
            return "451 4.7.1 come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        names = {address.split("@")[0] for address in envelope.rcpt_tos}
        if "full" in names:
            return "552 5.2.2 the mailbox is full"
        if "silent" in names:
            await asyncio.sleep(3600)
        if "gone" in names:
            server.transport.abort()
            return "421 gone"
        told = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "login": session.auth_data is not None, "tls": session.ssl is not None}
        part = self.folder / f".{next(self.numbers)}.part"
        part.write_bytes(json.dumps(told).encode() + b"\n" + envelope.content)
        os.rename(part, self.folder / f"{os.getpid()}-{part.stem[1:]}.mail")
        return "250 taken"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=data == LOGIN, handled=False, auth_data=data)


async def main(spool, cert, key):
    handler = Spool(spool)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    options = {"data_size_limit": MAIL_BYTES_MAX, "hostname": "mail.test", "timeout": 60}
    loop = asyncio.get_running_loop()
    plain = await loop.create_server(lambda: SMTP(handler, **options), "127.0.0.1", 0)
    locked = {"tls_context": context, "require_starttls": True, "auth_required": True, "authenticator": authenticate}
    secured = await loop.create_server(lambda: SMTP(handler, **locked, **options), "127.0.0.1", 0)
    print(*(server.sockets[0].getsockname()[1] for server in (plain, secured)), flush=True)
    await asyncio.gather(plain.serve_forever(), secured.serve_forever())


asyncio.run(main(*sys.argv[1:]))
