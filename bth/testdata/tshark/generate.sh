#!/bin/sh
# Writes what tshark makes of every capture to NAME.tsv beside this script, and the
# opcodes it knows to opcodes.tsv. Needs tshark (taken with 4.0.17); the test
# does not, it reads the files.
set -eu
cd "$(dirname "$0")"

fields='frame.number
eth.dst eth.src vlan.priority vlan.dei vlan.id
ip.src ip.dst ip.dsfield ip.ttl ip.id
ipv6.src ipv6.dst ipv6.tclass ipv6.hlim
udp.srcport udp.length
infiniband.bth.opcode infiniband.bth.se infiniband.bth.m infiniband.bth.padcnt infiniband.bth.tver
infiniband.bth.p_key infiniband.reserved infiniband.bth.destqp infiniband.bth.a infiniband.bth.reserved7 infiniband.bth.psn
infiniband.deth.q_key infiniband.deth.srcqp
infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen
infiniband.atomiceth.swapdt infiniband.atomiceth.cmpdt
infiniband.aeth.syndrome infiniband.aeth.msn infiniband.atomicacketh.origremdt
infiniband.immdt infiniband.ieth infiniband.invariant.crc data.data'

# These guess at payloads and call good packets malformed.
heuristics='rpcrdma_infiniband eth_over_ib iser_infiniband smb_direct_infiniband'

set --
for h in $heuristics; do set -- "$@" --disable-heuristic "$h"; done
for f in $fields; do set -- "$@" -e "$f"; done

for pcap in ../captures/*.pcap; do
	out=$(basename "$pcap" .pcap).tsv
	# The header line names the fields. Of payload and pad only the length and the first eight bytes are kept.
	tshark -n -r "$pcap" -T fields -E header=y -E occurrence=f "$@" 2>/dev/null |
		awk -F '\t' -v OFS='\t' '
			NR == 1 { for (i = 1; i <= NF; i++) if ($i == "data.data") p = i }
			NR > 1 && $p != "" { gsub(":", "", $p); $p = length($p) / 2 ":" substr($p, 1, 16) }
			{ print }' >"$out"
done
tshark -G values 2>/dev/null | awk -F '\t' -v OFS='\t' '$2 == "infiniband.bth.opcode" { print $3, $4 }' >opcodes.tsv
