package sniff

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Source is where frames come from.
type Source interface {
	// Next returns the next frame and when it was captured; io.EOF after the last, or once the source is closed. The frame
	// is good until the next call.
	Next() (frame []byte, at time.Time, err error)
	Close() error
}

// fileSource reads a capture file.
type fileSource struct {
	name string
	file *os.File
	read interface {
		ZeroCopyReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	}
	n int // frames read
}

// OpenFile opens a capture file of either format, pcap or pcapng, whose link type is Ethernet.
func OpenFile(name string) (Source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the capture: %w", err)
	}
	s, err := newFileSource(name, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func newFileSource(name string, f *os.File) (*fileSource, error) {
	r := bufio.NewReaderSize(f, 1<<16)
	magic, err := r.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("%s is no capture file: it has fewer than 4 bytes", name)
	}
	s := &fileSource{name: name, file: f}
	var linkType layers.LinkType
	switch {
	case bytes.Equal(magic, []byte{0x0A, 0x0D, 0x0D, 0x0A}): // a section header block
		ng, err := pcapgo.NewNgReader(r, pcapgo.DefaultNgReaderOptions)
		if err != nil {
			return nil, s.damaged(err)
		}
		s.read, linkType = ng, ng.LinkType()
	case isPcap(magic):
		p, err := pcapgo.NewReader(r)
		if err != nil {
			return nil, s.damaged(err)
		}
		s.read, linkType = p, p.LinkType()
	default:
		return nil, fmt.Errorf("%s is no capture file: it begins with % x, which is neither pcap's nor pcapng's mark", name, magic)
	}
	if linkType != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("%s has link type %v (%d), not Ethernet: capture on an interface, not on \"any\"", name, linkType, linkType)
	}
	return s, nil
}

// isPcap recognises pcap files: microseconds or nanoseconds, either byte order.
func isPcap(magic []byte) bool {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if m := order.Uint32(magic); m == 0xA1B2C3D4 || m == 0xA1B23C4D {
			return true
		}
	}
	return false
}

func (s *fileSource) Next() ([]byte, time.Time, error) {
	frame, ci, err := s.read.ZeroCopyReadPacketData()
	switch {
	case err == nil:
		s.n++
		return frame, ci.Timestamp, nil
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
		return nil, time.Time{}, io.EOF
	}
	return nil, time.Time{}, s.damaged(err)
}

func (s *fileSource) damaged(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s ends in the middle of frame %d: was the capture cut short?", s.name, s.n+1)
	}
	return fmt.Errorf("%s is damaged after frame %d: %w", s.name, s.n, err)
}

func (s *fileSource) Close() error { return s.file.Close() }

// Writer writes RoCEv2 frames to a pcapng file, what was remarked about them as comments.
type Writer struct {
	file *os.File
	ng   *pcapgo.NgWriter
}

// CreateFile makes a pcapng file.
func CreateFile(name string) (*Writer, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("cannot write the capture: %w", err)
	}
	ng, err := pcapgo.NewNgWriter(f, layers.LinkTypeEthernet)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot write %s: %w", name, err)
	}
	return &Writer{file: f, ng: ng}, nil
}

// Write adds a frame.
func (w *Writer) Write(at time.Time, frame []byte, marks Mark) error {
	ci := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(frame), Length: len(frame)}
	var opts pcapgo.NgPacketOptions
	if marks != 0 {
		opts.Comments = []string{marks.String()}
	}
	return w.ng.WritePacketWithOptions(ci, frame, opts)
}

// Close finishes the file.
func (w *Writer) Close() error {
	err := w.ng.Flush()
	if e := w.file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("cannot finish the capture %s: %w", w.file.Name(), err)
	}
	return nil
}
