package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce/cmd/rocectl/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show every operation between two devices in this process",
		Long: `demo makes two devices in this process, joined by memory, and shows every operation between them: SEND, RDMA WRITE, RDMA
READ, compare-and-swap and fetch-and-add. All bytes that arrive are checked; then rates and latencies are measured.
Then the same with 1 % of the packets lost. It needs no privilege. --impair replaces the loss of the second part.`,
		Args: atMost(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if a.link != "auto" && a.link != "mem" {
				if err := a.checkLink(true); err != nil {
					return err
				}
				return usagef("the demo has both ends in one process, which only --link mem can join: for %s use \"rocectl lab\" and \"rocectl perf\"", a.link)
			}
			o := demo.Options{Impair: "loss=1%", Text: a.text(), Bar: a.bar()}
			if a.impair != "" {
				o.Impair = a.impair
			}
			if _, err := a.impairment(); err != nil {
				return err
			}
			f, err := a.createPcap()
			if err != nil {
				return err
			}
			if f != nil {
				o.Pcap = f
				defer func() { err = errors.Join(err, f.Close()) }()
			}
			r, err := demo.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			return nil
		},
	}
}
