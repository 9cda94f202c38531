"""Tokens as PyJWT mints them, brought to the real `portcullis serve`.

Run by issuer.sh: KEYS is the key file, BASE the server, ISSUER its issuer.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

BASE, KEYS, ISSUER = (os.environ[name] for name in ("BASE", "KEYS", "ISSUER"))
AUDIENCE = os.environ.get("AUDIENCE", BASE + "/mcp")


def made():
    """A key of each kind: its name, algorithms, private half and JWK."""
    kinds = [
        ("rsa", ["RS256", "PS256"], rsa.generate_private_key(65537, 2048), RSAAlgorithm),
        ("ec", ["ES256"], ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
        ("ed", ["EdDSA"], ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm),
    ]
    for kid, algorithms, private, kind in kinds:
        jwk = json.loads(kind.to_jwk(private.public_key()))
        yield kid, algorithms, private, {**jwk, "kid": kid, "use": "sig"}


def publish(jwks):
    """Puts the key file in place as a timer would."""
    with open(KEYS + ".new", "w", encoding="utf-8") as file:
        json.dump({"keys": jwks}, file)
    os.rename(KEYS + ".new", KEYS)


def claims(**other):
    now = int(time.time())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "admin", "scope": "openid fs:read"}
    return {**good, "iat": now, "nbf": now, "exp": now + 300, "jti": os.urandom(8).hex(), **other}


def asked(token, path="/list?path=.", body=None):
    """The status of one request."""
    head = {"Authorization": "Bearer " + token}
    if body is not None:
        head |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(BASE + path, headers=head, data=body)
    try:
        with urllib.request.urlopen(request, timeout=180) as reply:
            return reply.status
    except urllib.error.HTTPError as refused:
        return refused.code


INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "issuer", "version": "0"},
        },
    }
).encode()


def main():
    if sys.argv[1:] == ["--publish-only"]:
        publish([jwk for *_, jwk in made()])
        return 0
    keys = list(made())
    publish([jwk for *_, jwk in keys])
    kid, _, private, _ = keys[-1]
    first = jwt.encode(claims(), private, "EdDSA", {"kid": kid})
    until = time.monotonic() + 20
    while asked(first) != 200 and time.monotonic() < until:
        # The keys that were there at the start are others; refused ones count as guesses.
        time.sleep(1)
    rows = []
    for kid, algorithms, private, _ in keys:
        for algorithm in algorithms:
            token = jwt.encode(claims(), private, algorithm, {"kid": kid, "typ": "at+jwt"})
            rows.append((f"{algorithm} over REST", asked(token), 200))
            rows.append((f"{algorithm} over MCP", asked(token, "/mcp", INITIALIZE), 200))
            writing = json.dumps({"path": "a", "content": "", "mode": "create"}).encode()
            rows.append((f"{algorithm} without the scope", asked(token, "/file/write", writing), 403))
    kid, _, private, _ = keys[0]
    now = int(time.time())
    many = claims(aud=["https://other.example", AUDIENCE], scp=["fs:read"])
    del many["scope"]
    rows.append(("a list of audiences, and scp", asked(jwt.encode(many, private, "RS256", {"kid": kid})), 200))
    for name, token in [
        ("unsigned", jwt.encode(claims(), None, "none", {"kid": kid})),
        ("HS256", jwt.encode(claims(), "a secret of at least thirty-two bytes", "HS256", {"kid": kid})),
        ("RS512", jwt.encode(claims(), private, "RS512", {"kid": kid})),
        ("expired", jwt.encode(claims(exp=now - 1), private, "RS256", {"kid": kid})),
        ("not yet", jwt.encode(claims(nbf=now + 120), private, "RS256", {"kid": kid})),
        ("another audience", jwt.encode(claims(aud="https://other.example"), private, "RS256", {"kid": kid})),
        ("another issuer", jwt.encode(claims(iss="https://other.example"), private, "RS256", {"kid": kid})),
        ("another user", jwt.encode(claims(sub="nobody"), private, "RS256", {"kid": kid})),
        ("another key", jwt.encode(claims(), rsa.generate_private_key(65537, 2048), "RS256", {"kid": kid})),
    ]:
        rows.append((name, asked(token), 401))
    wrong = [row for row in rows if row[1] != row[2]]
    for name, got, want in wrong:
        print(f"problem: {name}: {got}, not {want}", file=sys.stderr)
    print(f"issuer: {len(rows)} cases with tokens of PyJWT {jwt.__version__}, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
