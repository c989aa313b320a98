#!/usr/bin/python3
"""Recomputes with scapy the ICRC of every RoCEv2 packet in a capture over IPv4, the only
IP version for which scapy can. Prints how many there were and how many differ."""

import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP  # noqa: E402
from scapy.packet import raw  # noqa: E402
from scapy.utils import PcapReader  # noqa: E402


def main(name):
    seen = different = 0
    for packet in PcapReader(name):
        if IP not in packet or BTH not in packet:
            continue
        seen += 1
        captured = raw(packet[IP])
        rebuilt = packet[IP].copy()
        rebuilt[BTH].icrc = None  # scapy computes it when it builds the packet
        if raw(rebuilt) != captured:
            different += 1
            print(f"differs: {captured.hex()}", file=sys.stderr)
    print(seen, different)


main(sys.argv[1])
