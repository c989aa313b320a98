// Package clock gives instants and clocks.
//
// Protocol code never reads a clock: every call that needs the time takes a
// [Time]. The loop that drives it reads a [Clock] once a turn, so one turn sees
// one instant, and tests step a [Manual] clock instead of sleeping.
package clock
