// Package measure holds what a test run is measured by: the result as people and programs get it, the distribution of
// latencies, the counters of the device, and the bar that shows how far a run has come.
package measure
