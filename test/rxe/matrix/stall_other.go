//go:build !linux

package main

import (
	"errors"
	"time"
)

func pin(int) error { return errors.ErrUnsupported }

func nap(d time.Duration) { time.Sleep(d) }
