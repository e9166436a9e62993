"""What went wrong with a listener, in words for people: what was found, and where to look.

The client's own words are kept where they say something; classes are known by their names, so that
nothing but the wire needs the client. Secrets are taken out of all of them.
"""

from __future__ import annotations

import re
import socket
import ssl

from featurelib.backends.kafka_answers import LONGEST_WORDS
from featurelib.backends.kafka_limits import LONGEST_OF_ALL, too_long
from featurelib.backends.security import Credentials
from featurelib.words import clean

_NUMBER = re.compile(r"^\[Error -?\d+\] ")
_AUTHENTICATION = {
    "SaslAuthenticationFailedError",
    "UnsupportedSaslMechanismError",
    "IllegalSaslStateError",
}
_KERBEROS = "GSSError"  # no ticket, or the realm does not know the listener
NO_LENGTH = 0x15000000  # bytes; TLS and HTTP begin with what would be a longer frame
_TIMES = {"RequestTimedOutError", "KafkaTimeoutError"}
_CLOSED = "socket disconnected"


def words(error: Exception, credentials: Credentials, timeout_ms: int) -> str:
    """Why a listener could not be asked, in one line without secrets."""
    name = type(error).__name__
    text = _NUMBER.sub("", str(error)).removeprefix(name).removeprefix(": ")
    text = clean(credentials.hide(" ".join(text.split())), LONGEST_WORDS) if text else ""
    if name in _AUTHENTICATION or _KERBEROS in (kind.__name__ for kind in type(error).__mro__):
        said = f": {text}" if text else f" ({name})"
        return f"authentication failed{said}. {credentials.advice}"
    if isinstance(error, TimeoutError) or name in _TIMES:
        return f"no answer within {timeout_ms / 1000:g} s"
    if isinstance(error, socket.gaierror):
        return f"the host name is not known ({error.strerror})"
    if isinstance(error, ssl.SSLError | ConnectionResetError | BrokenPipeError):
        return f"the handshake failed: {text}. {credentials.advice}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, UnicodeError | OverflowError):
        return "nobody can have such an address"
    if name == "InvalidReceiveError":  # bytes that are no frame of Kafka's
        if LONGEST_OF_ALL < int(text.rpartition(" ")[2]) < NO_LENGTH:
            return too_long(LONGEST_OF_ALL)
        return f"what listens there does not answer as Kafka does here. {credentials.advice}"
    if text == _CLOSED:
        return f"the listener closed the connection. {credentials.advice}"
    return f"{name}: {text}" if text else name
