// Package sniff looks at RoCEv2 packets from outside: it decodes them from capture files or an interface, says of each
// whether its ICRC is right and what it is to its flow (sent again, out of order, a NAK), and counts.
//
// A flow is what goes from one address to one queue pair of another. Both the requests and the responses that travel
// that way belong to it; their packet sequence numbers are of two sequences and are followed apart.
//
// An [Analyzer] is pure: frames in, observations out. [OpenFile] and [OpenInterface] are where frames come from.
package sniff
