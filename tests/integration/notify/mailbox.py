"""An SMTP server that keeps the mails it receives."""

import email
import email.policy
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from threading import Thread


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.port = 0

    @property
    def texts(self) -> list[str]:
        bodies = [mail.get_body(("plain", "html")) for mail in self.mails]
        return ["" if body is None else str(body.get_content()) for body in bodies]


@contextmanager
def receiving_mail() -> Iterator[Mailbox]:
    """Run a server on a free port, which accepts every mail."""
    mailbox = Mailbox()

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 ready\r\n")
            while line := self.rfile.readline().strip():
                command = line[:4].upper()
                if command == b"RCPT":
                    mailbox.recipients.append(line.decode().partition(":")[2].strip("<> "))
                if command == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    content = b"".join(iter(self.rfile.readline, b".\r\n"))
                    mailbox.mails.append(
                        email.message_from_bytes(content, policy=email.policy.default)
                    )
                self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        mailbox.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield mailbox
        server.shutdown()
        thread.join()
