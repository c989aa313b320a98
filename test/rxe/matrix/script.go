package main

import (
	"slices"
	"strconv"
	"strings"
)

// A script is what the two programs of ../verbs do together in a verbs cell: flags for both ends and for either. The
// programs take the same flags, in C and in Go, so that a script is written once, here.
type script struct {
	name                       string
	both, requester, responder []string
	size, mtu, count           int
	sees                       outcome  // at any two ends
	rxeResponds                *outcome // instead, where rxe is the responder
}

// An outcome is what the ends of a script must see, in the notation of parseExpectation.
type outcome struct{ requester, responder string }

// In verbs an error ends the connection: the operation behind it and all receives are flushed, each exactly once. Both
// ends end by flushing in any case, so every receive that no message needed completes with WR_FLUSH_ERR.
const (
	flushed   = "recv=WR_FLUSH_ERR*2"
	untouched = flushed + ";region=untouched"
	denied    = "send=REM_ACCESS_ERR,WR_FLUSH_ERR;" + flushed
	refused   = "send=REM_INV_REQ_ERR,WR_FLUSH_ERR;" + flushed
	// rxe calls a right that the queue pair lacks an invalid request, hardware an access error.
	eitherNAK = "send=REM_INV_REQ_ERR|REM_ACCESS_ERR,WR_FLUSH_ERR;" + flushed
	exceeded  = "send=RNR_RETRY_EXC_ERR,WR_FLUSH_ERR;" + flushed
)

// scripts by name.
var scripts = func() map[string]*script {
	all := make(map[string]*script)
	for _, s := range slices.Concat(accessScripts(), receiveScripts(), mtuScripts(), killScripts(), verifyScripts()) {
		all[s.name] = &s
	}
	return all
}()

// accessScripts: a key that is none, a range that leaves the region or wraps round 2^64, a right that the region or the
// queue pair lacks. Nothing of the region may change.
func accessScripts() []script {
	var all []script
	for _, op := range []string{"write", "read", "fadd", "cas"} {
		add := func(name, requester, responder, sees string) {
			s := script{name: name + "-" + op, both: []string{"--op", op}, size: 5000, mtu: 1024, count: 2, sees: outcome{sees, untouched}}
			if sees == denied { // rxe tells the responder's program only since Linux 6.18
				s.sees.responder, s.rxeResponds = untouched+";event=QP_ACCESS_ERR", &outcome{sees, untouched}
			}
			if op == "fadd" || op == "cas" {
				s.size = 8
			}
			s.requester, s.responder = strings.Fields(requester), strings.Fields(responder)
			all = append(all, s)
		}
		add("rkey", "--fault rkey", "", denied)
		add("bounds", "--fault bounds", "", denied)
		if op == "write" || op == "read" { // eight aligned bytes cannot wrap
			add("wrap", "--fault wrap", "", denied)
		}
		add("no-region-access", "", "--no-region-access", denied)
		add("no-qp-access", "", "--no-qp-access", eitherNAK)
	}
	return all
}

// receiveScripts: a receive that is missing, for ever or for a while, or too small.
func receiveScripts() []script {
	var all []script
	for _, op := range []string{"send", "send-imm", "write-imm"} {
		all = append(all,
			script{name: "rnr-" + op, both: []string{"--op", op}, requester: []string{"--rnr-retry", "2"}, responder: []string{"--receives", "0"},
				size: 5000, mtu: 1024, count: 2, sees: outcome{exceeded, "recv="}},
			script{name: "rnr-late-" + op, both: []string{"--op", op}, responder: []string{"--late", "150", "--receive-size", "5000"},
				size: 5000, mtu: 1024, count: 2, sees: outcome{"send=SUCCESS*2;" + flushed, "recv=SUCCESS*2"}})
	}
	for _, small := range []struct {
		name string
		size int
	}{{"small", 100}, {"small-fragments", 5000}} {
		all = append(all, script{name: small.name, both: []string{"--op", "send"}, responder: []string{"--receive-size", "64"},
			size: small.size, mtu: 1024, count: 2,
			sees: outcome{refused, "recv=LOC_LEN_ERR,WR_FLUSH_ERR;region=untouched"},
			// rxe takes the overrun for a fault of its own.
			rxeResponds: &outcome{"send=REM_OP_ERR|REM_INV_REQ_ERR,WR_FLUSH_ERR;" + flushed,
				"recv=LOC_QP_OP_ERR|LOC_LEN_ERR,WR_FLUSH_ERR;region=untouched"}})
	}
	return all
}

// mtuScripts: the ends disagree on the path MTU, so that packets come out longer or shorter than agreed.
func mtuScripts() []script {
	var all []script
	for _, mtu := range []struct {
		name, responder string
		requester       int
	}{{"mtu-above", "1024", 4096}, {"mtu-below", "4096", 1024}} {
		add := func(op string, sees outcome, rxeResponds *outcome) {
			all = append(all, script{name: mtu.name + "-" + op, both: []string{"--op", op}, size: 16384, mtu: mtu.requester, count: 2,
				responder: []string{"--mtu", mtu.responder, "--receive-size", "16384"}, sees: sees, rxeResponds: rxeResponds})
		}
		add("write", outcome{refused, untouched}, nil)
		// rxe before 6.2 does not look at the lengths of SEND and delivers the message. A receive that was begun
		// completes with the reason, one that was not is flushed.
		add("send", outcome{refused, "recv=WR_FLUSH_ERR|LOC_LEN_ERR|REM_INV_REQ_ERR,WR_FLUSH_ERR"},
			&outcome{"send=REM_INV_REQ_ERR|SUCCESS,WR_FLUSH_ERR|SUCCESS;" + flushed, ""})
		// Of a READ it is the requester that sees the length; what rxe makes of that differs by version.
		add("read", outcome{"", flushed}, &outcome{"send=BAD_RESP_ERR|LOC_LEN_ERR,WR_FLUSH_ERR;" + flushed, flushed})
	}
	return all
}

// killScripts: one end is killed while WRITEs stream. The requester runs out of retries, the responder has its
// connection closed; only the survivor is judged.
func killScripts() []script {
	var all []script
	for _, name := range []string{"killed-peer", "killed-ours"} {
		all = append(all, script{name: name, both: []string{"--op", "write", "--stream"}, size: 4096, mtu: 1024, count: 16,
			sees: outcome{"send=RETRY_EXC_ERR,WR_FLUSH_ERR*15;" + flushed, flushed}})
	}
	return all
}

// verifyScripts: every byte arrives where it belongs, and every atomic returns what its place held.
func verifyScripts() []script {
	var all []script
	for _, op := range []string{"send", "send-imm", "write", "write-imm", "read", "fadd", "cas"} {
		all = append(all, script{name: "verify-" + op, both: []string{"--op", op, "--verify"}})
	}
	return all
}

// receives reports whether each message of a verified operation takes a receive.
func receives(op string) bool { return op == "send" || strings.HasSuffix(op, "-imm") }

// verified is a verify script for messages of a size: how many receives and completions there are depends on it.
func verified(op string, size, count int) (responder []string, sees outcome) {
	n := strconv.Itoa(count)
	sees = outcome{"send=SUCCESS*" + n + ";" + flushed, flushed + ";data=right"}
	if receives(op) {
		responder = []string{"--receives", n, "--receive-size", strconv.Itoa(size)}
		sees.responder = "recv=SUCCESS*" + n + ";data=right"
	}
	if op == "read" || op == "fadd" || op == "cas" {
		sees.requester += ";data=right"
	}
	return responder, sees
}
