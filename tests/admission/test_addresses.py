"""Addresses that must not be connected to, and hosts read as a resolver reads them."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.admission.addresses import networks, parse_host, parse_url, why_forbidden


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "provider"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.1", "reserved"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "6to4"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmarks"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::7f00:1", "IPv4-compatible"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::ffff:0:8.8.8.8", "IPv4-translated"),
        ("64:ff9b::8.8.8.8", "NAT64"),
        ("64:ff9b:1::1", "NAT64"),
        ("2001::1", "Teredo"),
        ("2001:10::1", "reserved"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "6to4"),
        ("3fff::1", "documentation"),
        ("fc00::1", "private"),
        ("fd12::1", "private"),
        ("fd00:ec2::254", "metadata"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("5f00::1", "reserved"),
        ("100::1", "reserved"),
        ("not an address", "no address"),
    ],
)
def test_an_address_of_no_public_host_is_forbidden_and_told_why(address: str, what: str) -> None:
    """Special-purpose registries of IANA, and where clouds keep credentials."""
    assert what in why_forbidden(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"],
)
def test_a_public_address_is_allowed(address: str) -> None:
    """Neighbours of the forbidden networks included."""
    assert not why_forbidden(address)


def test_an_exemption_opens_its_networks_but_never_a_clouds_metadata() -> None:
    """An exempted link-local network does not hand out credentials."""
    exempted = networks(["10.1.0.0/16", "169.254.0.0/16", "::1"])

    assert not why_forbidden("10.1.2.3", exempted)
    assert not why_forbidden("169.254.1.1", exempted)
    assert not why_forbidden("::1", exempted)
    assert why_forbidden("10.2.0.1", exempted)
    assert why_forbidden("169.254.169.254", exempted)


@given(st.ip_addresses(v=4))
def test_nothing_that_python_calls_private_is_allowed(address: IPv4Address) -> None:
    """The standard library's own notion of a global address is a lower bound."""
    assert address.is_global or why_forbidden(address)


@given(st.ip_addresses(v=6))
def test_nothing_of_ipv6_that_python_calls_private_is_allowed(address: IPv6Address) -> None:
    """The same for IPv6, where everything outside 2000::/3 is forbidden as well."""
    assert address.is_global or why_forbidden(address)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7F000001",
        "2130706433",
        "017700000001",
        "127.0.0.1.",
        "0x7f.1",
        "\uff11\uff12\uff17.0.0.1",
        "\u2460\u2461\u2466.1",
        "127\u30020\uff0e0\uff611",
        "0x7f.0.0x0.01",
    ],
)
def test_loopback_in_any_form_is_loopback(text: str) -> None:
    """Octal, hexadecimal, one number, too few numbers, other digits and other dots."""
    host = parse_host(text)

    assert host.address == ip_address("127.0.0.1")
    assert host.is_plain is (text == "127.0.0.1")


@given(st.lists(st.integers(0, 2**33), min_size=1, max_size=5), st.data())
def test_numbers_are_read_as_the_system_reads_them(numbers: list[int], data: st.DataObject) -> None:
    """Whatever `inet_aton` takes for an address is the same address here, and nothing else is one."""
    forms = ("{}", "0x{:x}", "0{:o}", "0X{:X}")
    text = ".".join(data.draw(st.sampled_from(forms)).format(number) for number in numbers)
    try:
        expected = str(IPv4Address(socket.inet_aton(text)))
    except OSError:
        expected = ""

    assert parse_host(text).name == expected


@given(st.text(max_size=40))
def test_any_text_as_a_host_has_an_answer(text: str) -> None:
    """Either what it is or why it is nothing, never an exception."""
    host = parse_host(text)

    assert bool(host.fault) != bool(host.name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "a b",
        "a%00.example",
        "1.2.3.4.5",
        "1.2.3.256",
        "08.1",
        "99999999999",
        "[::1",
        "[::1%25eth0]",
        "[1.2.3.4]",
        "a" * 64 + ".example",
        "a\x00b",
        "a@b",
        "xn--\u00e4.example",
        "a_b.1",
    ],
)
def test_what_is_no_host_is_told_so(text: str) -> None:
    """No host is guessed."""
    assert parse_host(text).fault


@pytest.mark.parametrize(
    "text",
    ["localhost", "LOCALHOST.", "a.localhost", "redis", "wiki.internal", "a.local", "x.lan"],
)
def test_a_name_of_this_network_is_local(text: str) -> None:
    """Names that no public name server answers for, single words included."""
    assert parse_host(text).is_local


def test_a_name_in_other_letters_is_shown_in_its_ascii_form() -> None:
    """So that a person sees that it is not the name it looks like."""
    host = parse_host("\u0430pple.com")

    assert host.name == "xn--pple-43d.com"
    assert not host.is_plain
    assert not parse_host("xn--pple-43d.com").is_plain
    assert parse_host("Apple.com").is_plain


@pytest.mark.parametrize(
    ("url", "name", "port", "userinfo"),
    [
        ("https://example.com", "example.com", 443, ""),
        ("HTTP://EXAMPLE.com:8080/a?b#c", "example.com", 8080, ""),
        ("https://a:b@example.com/x@y", "example.com", 443, "a:b"),
        ("https://good.example@evil.example", "evil.example", 443, "good.example"),
        ("https://good.example#@evil.example", "good.example", 443, ""),
        ("https://good.example?@evil.example", "good.example", 443, ""),
        ("http://[2606:4700::1111]:81/", "2606:4700::1111", 81, ""),
        ("http://[2606:4700::1111]", "2606:4700::1111", 80, ""),
    ],
)
def test_a_url_leads_to_one_host(url: str, name: str, port: int, userinfo: str) -> None:
    """Whatever stands before an `@` or behind the path is not the host."""
    target = parse_url(url)

    assert (target.host.name, target.port, target.userinfo, target.fault) == (name, port, userinfo, "")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://a.example",
        "https:///x",
        "https://a.example\\@b",
        "https://a .example",
        "https://a.example:0",
        "https://a.example:99999",
        "https://a.example:",
        "//a.example",
        "https://a.example\n",
        "https://[::1",
        "https://1.2.3.4.5/",
    ],
)
def test_a_url_that_leads_nowhere_has_a_fault(url: str) -> None:
    """Programs differ in how they read these, so none is read."""
    assert parse_url(url).fault
