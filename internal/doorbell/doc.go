// Package doorbell has a bell that wakes a goroutine in poll(2).
package doorbell
