// Package engine drives queue pairs over a link: it turns frames into packets for
// them and their packets into frames.
//
// A [Loop] owns one [link.Queue] and the queue pairs ([QP]) assigned to it. Its body is
// [Loop.Step], which does everything there is to do at one instant and never waits:
//
//	control functions      create, modify, destroy, look: between turns only
//	receive                at most 64 frames: decode, verify the ICRC, find the queue
//	                       pair, HandlePacket; then give the frames back
//	doorbells              queue pairs that something was posted to
//	timers                 queue pairs whose time has come
//	deliver                completions of every ready queue pair into the CQ rings
//	transmit               at most 16 packets of each ready queue pair in turn
//	flush                  one kick for the whole turn
//
// Completions are published before anything is sent, so nothing is acknowledged that
// has not been delivered. Every stage is bounded, so none starves another.
//
// [Loop.Run] is a shell around Step for a goroutine of its own: step, spin for a
// while, sleep in the link. Whoever else wants to step (a program that makes progress by
// itself, a simulator) does it under [Loop.TryDrive]; one goroutine drives at a time.
//
// # Between goroutines
//
// A program posts straight into the rings of the transport queue pair, under a
// mutex for each queue that the loop never takes, and rings a doorbell: a bit in a
// tree of words, plus a wake-up if the loop sleeps. Completions come back
// through one single-producer ring for each CQ and loop. [Loop.Do] runs everything
// that is rare between two turns; a Do that does nothing is the grace period after
// which no slice of a deregistered region is in use. No packet crosses a goroutine.
//
// # Limitations
//
// A packet that reaches another queue than that of the loop which drives its queue
// pair is dropped as unknown_qp. No link has more than one queue yet.
package engine
