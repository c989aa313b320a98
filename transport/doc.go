// Package transport runs InfiniBand queue pairs: the reliable connection service
// of the InfiniBand Architecture Specification, volume 1, chapter 9, with the
// states and work requests of verbs (chapters 10 and 11).
//
// A queue pair ([QP]) is a value without clock, socket, goroutine or lock. Its
// driver hands it packets and the time, and takes out packets and completions:
//
//	PostSend, PostRecv, Modify, HandlePacket, HandleTimeout      change it
//	PollCompletion, PollTransmit, PollEvent, NextTimeout         say what to do
//
// After any of the first, before sleeping, drain the second in that order.
//
// A queue pair has three roles, each with its state and PSN in a file of its own:
//
//   - The requester (requester.go) turns send work requests into request packets,
//     within a window of PSNs, and resends after a timeout or NAK.
//   - The completer (completer.go) takes the responses and completes work requests.
//   - The responder (responder.go) executes the peer's requests, remembers READs
//     and atomics for their duplicates (replay.go) and owes answers, which leave in
//     PSN order (answers.go).
//
// # States
//
//	RESET ── INIT ── RTR ── RTS ⇄ SQD       Modify; every state goes to RESET or ERR
//	                         └──── ERR       by a failed request, either side's
//
//	state   PostRecv   PostSend   requests in   requests out
//	RESET   refused    refused    dropped       –
//	INIT    queued     refused    dropped       –
//	RTR     used       refused    executed      –
//	RTS     used       sent       executed      sent
//	SQD     used       held       executed      those in progress end
//	ERR     flushed    flushed    dropped       –
//
// # Timers
//
//	ACK timeout   3 x 4.096 us x 2^TIMEOUT without progress: resend from the oldest
//	              unacknowledged packet, at the cost of one of RETRY_CNT
//	RNR           the time an RNR NAK asks for, during which no request is sent
//	probe         longer silence than round trips explain: the oldest request again, as a question (probe.go)
//	reorder       how long a gap may last before it is taken for a loss (hold.go)
//
// # Losses
//
// The zero [Recovery] is go-back-N. What it can do beyond that needs no agreement with the
// peer. The responder keeps requests behind a gap and takes them when it is filled (hold.go). The requester sends only what is
// missing once it has seen its peer do so, and asks for missing READ responses by range (losses.go). A window
// shrinks only where losses look like a queue that runs full (window.go).
//
// # Limitations
//
// Only RC is implemented; FLUSH and ATOMIC WRITE are refused as invalid requests; path migration,
// memory windows and shared receive queues do not exist.
package transport
