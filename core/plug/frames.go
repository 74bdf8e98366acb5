package plug

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// Bounds of HTTP/2 frames, on a connection for all its streams, after RFC 9113. gRPC answers each PING and SETTINGS, but
// counts none (its server does, http2_server.go; its client only waits while 10,000 answers are not written). Frames with data
// are bounded by the flow-control window, however small they are; the others are not. They are 2 a call, an update
// of the window for every 16 kB of a request, and what answers the core's own: far fewer than the limits.
const (
	// controlRate is how many frames without data may come in a second in the long run, and controlBurst at once. At this
	// rate they take a hundredth of a processor.
	controlRate, controlBurst = 1_000, 10_000
	// dataRate is how many frames with data are read in a second, and dataBurst at once. Frames of 16 kB, the usual size, of
	// the fastest stream are a quarter of that.
	dataRate, dataBurst = 10_000, 20_000
	// maxHeaders bounds the headers of an answer, in bytes; gRPC's status is one of them.
	maxHeaders = 256 << 10
)

// frameKind is the type of a frame.
type frameKind byte

const frameData frameKind = 0

// String returns the name that RFC 9113 has (section 6).
func (k frameKind) String() string {
	names := []string{"DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"}
	if int(k) < len(names) {
		return names[k]
	}
	return "of an unknown type"
}

// frames counts the frames that a process sends on all its connections. It is safe for concurrent use.
type frames struct {
	control, data *rate.Limiter

	mu     sync.Mutex
	counts map[frameKind]int // of frames without data
	broken error
}

func newFrames() *frames {
	return &frames{
		control: rate.NewLimiter(controlRate, controlBurst), data: rate.NewLimiter(dataRate, dataBurst),
		counts: map[frameKind]int{},
	}
}

// add counts a frame, and returns a [*ViolationError] if there are too many.
func (f *frames) add(kind frameKind) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts[kind]++; f.broken == nil && !f.control.Allow() {
		most := kind
		for k, n := range f.counts {
			if n > f.counts[most] {
				most = k
			}
		}
		f.broken = violation("it sent HTTP/2 frames without data faster than the limit of %d a second, most of them %s: the gRPC library that it uses is broken",
			controlRate, most)
	}
	return f.broken
}

// violation returns why the connection was closed; nil if it was not.
func (f *frames) violation() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

// frameCredentials are TLS credentials whose connections count frames.
type frameCredentials struct {
	credentials.TransportCredentials
	config *tls.Config // completed by the handshake of go-plugin, before the first connection
	frames *frames
}

func newFrameCredentials(config *tls.Config, f *frames) frameCredentials {
	return frameCredentials{credentials.NewTLS(config), config, f}
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c frameCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := credentials.NewTLS(c.config).ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	open, end := context.WithCancel(context.Background())
	return &frameConn{Conn: conn, frames: c.frames, open: open, end: end}, info, nil
}

// Clone implements [credentials.TransportCredentials].
func (c frameCredentials) Clone() credentials.TransportCredentials { return c }

// frameConn counts the frames that are read.
type frameConn struct {
	net.Conn
	frames *frames
	open   context.Context // until Close
	end    context.CancelFunc
	// header is the begin of the next frame's header, rest how much of the present frame is to come, in bytes.
	header []byte
	rest   int
}

// Read implements [net.Conn]. It fails when too many frames without data came, and waits after too many with data.
func (c *frameConn) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	data, broken := c.count(buffer[:n])
	if broken != nil {
		return 0, broken
	}
	_ = c.frames.data.WaitN(c.open, min(data, dataBurst)) // it fails at the end
	return n, err
}

// count returns how many frames with data begin in what was read.
func (c *frameConn) count(read []byte) (data int, err error) {
	const size = 9 // of a header: length (24 bits), type, flags, stream
	for len(read) > 0 {
		if c.rest > 0 {
			skipped := min(c.rest, len(read))
			c.rest, read = c.rest-skipped, read[skipped:]
			continue
		}
		taken := min(size-len(c.header), len(read))
		c.header, read = append(c.header, read[:taken]...), read[taken:]
		if len(c.header) < size {
			break
		}
		kind := frameKind(c.header[3])
		c.rest = int(binary.BigEndian.Uint32(c.header) >> 8)
		c.header = c.header[:0]
		if kind == frameData && c.rest > 0 {
			data++
		} else if err := c.frames.add(kind); err != nil {
			return data, err
		}
	}
	return data, nil
}

// Close implements [net.Conn].
func (c *frameConn) Close() error {
	c.end()
	return c.Conn.Close()
}
