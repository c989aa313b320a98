//go:build race

package transport

func init() { raceDetector = true }
