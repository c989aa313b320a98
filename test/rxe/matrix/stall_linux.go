package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// pin binds the calling thread to a processor, ahead of whatever else wants it.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	// In the round-robin class only the machine itself can keep the thread from waking in time.
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}

// nap sleeps in the calling thread; time.Sleep would leave it to whichever thread runs Go's timers.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // an interrupted nap is a short one
}
