package hostile

import (
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// frameFloods are floods of HTTP/2 frames, which no call of gRPC sends: they are written to the connection beside its server.
func frameFloods() []Misdeed {
	// The header of a frame (RFC 9113, section 4.1): length, type, flags, stream.
	frame := func(kind, flags, stream byte, payload string) string {
		return string([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
	}
	var all []Misdeed
	for _, f := range []struct{ name, first, frame string }{
		{"PING", "", frame(6, 0, 0, "12345678")},
		{"SETTINGS", "", frame(4, 0, 0, "")},
		{"WINDOW_UPDATE", "", frame(8, 0, 0, "\x00\x00\x00\x01") + frame(8, 0, 0, "\x00\x00\x00\x01")},
		{"RST_STREAM", "", frame(3, 0, 101, "\x00\x00\x00\x08")},
		{"DATA", "", frame(0, 0, 101, "")},
		{"HEADERS", "", frame(1, 4, 101, "\x88")}, // :status 200
		// Headers that never end: gRPC reads on until they have an end, or more bytes than it accepts.
		{"CONTINUATION", frame(1, 0, 101, "\x88"), frame(9, 0, 101, "")},
		{"unknown", "", frame(0xbb, 0, 0, "")},
	} {
		name := strings.ToLower(f.name)
		name = strings.ReplaceAll(name, "_", "-")
		all = append(all, Misdeed{
			Name: "frames-" + name, Group: Floods, What: "sends frames without data (" + f.name + ") without end",
			serve: func(b *backend, o []grpc.ServerOption) {
				serveWith(b, o, false, true, func(c *tls.Config) credentials.TransportCredentials {
					return floodingCredentials{credentials.NewTLS(c), f.first, strings.Repeat(f.frame, 100)}
				})
			},
		})
	}
	return all
}

// floodingCredentials are those of connections with a flood.
type floodingCredentials struct {
	credentials.TransportCredentials
	first, flood string
}

func (c floodingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	flooded := &floodedConn{Conn: conn}
	go func() {
		looks := time.NewTicker(look)
		defer looks.Stop()
		for !on() {
			<-looks.C
		}
		begin()
		if c.first != "" { // nothing may come between headers and their continuation
			flooded.mu.Lock()
			defer flooded.mu.Unlock()
		}
		for next := c.first + c.flood; on(); next = c.flood {
			if c.first == "" {
				flooded.mu.Lock()
			}
			_, err := conn.Write([]byte(next))
			if c.first == "" {
				flooded.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
		end()
	}()
	return flooded, info, nil
}

func (c floodingCredentials) Clone() credentials.TransportCredentials { return c }

// floodedConn keeps the server's frames and those of the flood apart.
type floodedConn struct {
	net.Conn
	mu sync.Mutex
}

func (c *floodedConn) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.Write(data)
}
