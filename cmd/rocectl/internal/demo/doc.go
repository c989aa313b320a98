// Package demo shows every operation of a reliable connection between two devices in one process: that the right bytes
// arrive, how fast, and the same with packets lost on the way.
package demo
