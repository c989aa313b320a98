package sniff

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

func TestWriter_WhatItWroteReadsTheSame(t *testing.T) {
	in, err := OpenFile(filepath.Join(bthTestdata, "captures", "rc_rnr.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	name := filepath.Join(t.TempDir(), "copy.pcapng")
	w, err := CreateFile(name)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAnalyzer()
	var want []string
	for {
		frame, at, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if o := a.Frame(at, frame); o != nil {
			want = append(want, o.String())
			if err := w.Write(at, frame, o.Marks); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, got := analyze(t, name)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the copy reads\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "RNR NAK"); n != 9 {
		t.Errorf("%d comments say RNR NAK, want 9", n)
	}
}

func TestOpenFile_RefusesInSentences(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cooked := filepath.Join(dir, "cooked.pcap")
	f, err := os.Create(cooked)
	if err != nil {
		t.Fatal(err)
	}
	if err := pcapgo.NewWriter(f).WriteFileHeader(65535, layers.LinkTypeLinuxSLL); err != nil {
		t.Fatal(err)
	}
	f.Close()
	whole, err := os.ReadFile(filepath.Join(bthTestdata, "captures", "rc_atomic.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{filepath.Join(dir, "absent"), "cannot read the capture: open"},
		{put("empty", nil), "is no capture file: it has fewer than 4 bytes"},
		{put("text", []byte("# packets")), "neither pcap's nor pcapng's mark"},
		{cooked, "not Ethernet: capture on an interface"},
		{put("cut", whole[:len(whole)-10]), "ends in the middle of frame 8: was the capture cut short?"},
		{put("headless", whole[:10]), "ends in the middle of frame 1"},
	} {
		if err := readAll(c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", filepath.Base(c.name), err, c.want)
		}
	}
}

func readAll(name string) error {
	s, err := OpenFile(name)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if _, _, err := s.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
