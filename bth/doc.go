// Package bth turns bytes into RoCEv2 packets and packets into bytes.
//
// A RoCEv2 packet is an InfiniBand transport packet in a UDP datagram to port 4791
// (IBA volume 1, annex A17):
//
//	Ethernet [VLAN] | IPv4 or IPv6 | UDP | BTH | extension headers | payload | pad | ICRC
//	                                      <--------------- IB packet ------------------>
//
// [Envelope] finds the IB packet in a frame, [Packet] decodes it, [ICRC] verifies and
// computes the checksum that ends it; [Encap] and [Headers] build. One table of
// opcodes drives all of them. A frame goes in by
//
//	envelope.Decode(frame)            // DropNone, or why not
//	packet.Decode(&envelope, envelope.IB)
//	icrc.Verify(&envelope, envelope.IB, 0)
//
// and out by
//
//	n := encap.Put(frame, ibLen, id)
//	b := headers.AppendTo(frame[:n])
//	b = append(b, payload...)         // and the pad bytes, zero
//	crc := icrc.Start(b[encap.L3():])
//	bth.PutICRC(frame[len(b):], crc)
//
// # Guarantees
//
// No input makes a decoder panic or read past what the headers say: every length is
// checked once, before anything depends on it, and an opcode that is not in the
// table is refused before its length is looked at. Whatever is refused has a
// [Drop], an error that indexes counters. Believe nothing of a packet before its ICRC
// was found right; and the ICRC shows damage, not forgery.
//
// Nothing on the way of a packet, in or out, allocates. Nothing here keeps a reference
// beyond what its documentation says, locks, or reads a clock. Decoded slices alias
// the frame.
//
// Reserved bits are sent as zero and ignored on receipt (IBA C9-6), so a packet whose
// reserved bits are zero is the same bytes after decoding and encoding.
//
// # Limits
//
// RC, UC, UD and CNP are spoken; RD and XRC opcodes have names and are dropped as
// unsupported. IPv4 options, IPv6 extension headers, fragments, second VLAN
// tags and RoCE version 1 are refused. Rules that need the state of a queue pair, such
// as the size of a FIRST packet or the order of opcodes, are not checked here.
//
// Linux rxe 6.2 to 7.2 computes the ICRC of FLUSH over the headers twice, against the
// specification: its FLUSH packets fail verification here, and it drops ours.
package bth
