// Package capture writes the packets of a Pod's interface as a pcap. `kubectl network capture` runs it as
// `network-agent capture`, in a container that shares the Pod's network namespace. Its limits end it, if nobody does.
package capture

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// maxLength is the longest packet that there can be, and minLength an Ethernet header with one of IPv6.
const maxTime, maxBytes, minLength, maxLength = 10 * time.Minute, 100 << 20, 54, 256 << 10

// Limits bound a capture.
type Limits struct {
	Time time.Duration
	// Bytes is how large the pcap may be, and Length how much of each packet it has.
	Bytes, Length uint32
}

// AddFlags adds the limits' flags, which are the same for users and for the program in the container.
func (l *Limits) AddFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&l.Time, "duration", 10*time.Second, "How long the capture lasts: 1s to 10m")
	flags.Uint32Var(&l.Bytes, "bytes", 10<<20, "How large the pcap may get, in bytes: 1024 to 104857600 (100 MiB)")
	flags.Uint32Var(&l.Length, "snaplen", maxLength,
		"How many bytes of each packet are kept: 54 to 262144. With 96, it is the headers and little else")
}

// Args are the flags that say the limits.
func (l *Limits) Args() []string {
	return []string{
		"--duration=" + l.Time.String(), fmt.Sprintf("--bytes=%d", l.Bytes), fmt.Sprintf("--snaplen=%d", l.Length),
	}
}

// Validate reports the first limit that cannot be.
func (l *Limits) Validate() error {
	switch {
	case l.Time < time.Second || l.Time > maxTime:
		return fmt.Errorf("--duration %s: write 1s to 10m", l.Time)
	case l.Bytes < 1<<10 || l.Bytes > maxBytes:
		return fmt.Errorf("--bytes %d: write 1024 to %d", l.Bytes, maxBytes)
	case l.Length < minLength || l.Length > maxLength:
		return fmt.Errorf("--snaplen %d: write %d to %d", l.Length, minLength, maxLength)
	}
	return nil
}

// Source is where packets come from.
type Source interface {
	// Next reads the beginning of the next packet. length is the whole packet's, and at is when it came. It returns
	// os.ErrDeadlineExceeded if none comes for a moment.
	Next(beginning []byte) (n, length int, at time.Time, err error)
	// Lost is how many packets came that Next was too slow for.
	Lost() uint32
}

// recordSize is the size of a packet's header in a pcap.
const recordSize = 16

// Write writes a pcap until ctx is done, a limit is reached, or an error. It returns what to say about it, also after
// an error. The pcap ends with a whole packet, unless to fails. Its format is that of draft-ietf-opsawg-pcap.
func Write(ctx context.Context, to io.Writer, from Source, l Limits) (says string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Time)
	defer cancel()
	out, order := bufio.NewWriterSize(to, 64<<10), binary.LittleEndian
	// Times are in nanoseconds, the version is 2.4, and the frames are Ethernet's (1).
	header := []uint32{0xa1b23c4d, 4<<16 | 2, 0, 0, l.Length, 1}
	err = binary.Write(out, order, header)
	packets, size, full, record := 0, binary.Size(header), "", make([]byte, recordSize+l.Length)
	for err == nil && full == "" && ctx.Err() == nil {
		n, length, at, failed := from.Next(record[recordSize:])
		switch {
		case errors.Is(failed, os.ErrDeadlineExceeded):
			err = out.Flush() // a user may read the packets when they come
		case failed != nil:
			err = failed
		case size+recordSize+n > int(l.Bytes):
			full = ", as many as --bytes allows"
		default:
			for i, word := range []int{int(at.Unix()), at.Nanosecond(), n, length} {
				order.PutUint32(record[4*i:], uint32(word)) //nolint:gosec // the format has 32 bits
			}
			_, err = out.Write(record[:recordSize+n])
			packets, size = packets+1, size+recordSize+n
		}
	}
	says = fmt.Sprintf("%d packets in %d bytes%s. %d packets lost.", packets, size, full, from.Lost())
	return says, errors.Join(err, out.Flush())
}
