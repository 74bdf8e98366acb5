package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"
)

// aliveName is the file name of the liveness socket.
const aliveName = "alive.sock"

// serveAlive answers each datagram on a unix socket until ctx ends, after the source's
// Alive has returned. It opens no file and allocates no memory for an answer, so it works
// while the agent has no descriptors left, and whatever happens on its other sockets. Only
// the agent's own user can send to the socket.
func serveAlive(ctx context.Context, conn *net.UnixConn, source Source, log *slog.Logger) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the read
	defer stop()
	buffer := make([]byte, 1)
	for {
		_, client, err := conn.ReadFromUnix(buffer)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || client == nil {
			continue // a client without an address gets no answer
		}
		source.Alive()
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.WriteToUnix(buffer, client); err != nil {
			log.Debug("answer on the liveness socket", "error", err)
		}
	}
}

// aliveQuestion is a question that has not been sent yet.
type aliveQuestion struct {
	*net.UnixConn
	patience time.Duration
}

// Alive asks whether the agent's parts answer, and returns an error if they do not. It is
// cheap for the agent.
func (c *Client) Alive(ctx context.Context) error {
	question, err := c.askAlive(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = question.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = question.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := question.answer(); err != nil {
		return fmt.Errorf("the agent does not answer on %s: %w", filepath.Join(filepath.Dir(c.path), aliveName), err)
	}
	return nil
}

func (c *Client) askAlive(ctx context.Context) (aliveQuestion, error) {
	path := filepath.Join(filepath.Dir(c.path), aliveName)
	// An abstract address, see unix(7): the answer needs an address, and no file is left
	// behind.
	dialer := net.Dialer{LocalAddr: &net.UnixAddr{Net: "unixgram", Name: fmt.Sprintf("@accelmux-alive-%d-%d", os.Getpid(), time.Now().UnixNano())}}
	conn, err := dialer.DialContext(ctx, "unixgram", path)
	if err != nil {
		return aliveQuestion{}, c.explain(err)
	}
	return aliveQuestion{conn.(*net.UnixConn), c.patience}, nil
}

// answer sends the question, and waits for the answer.
func (q aliveQuestion) answer() error {
	if err := q.SetDeadline(time.Now().Add(q.patience)); err != nil {
		return err
	}
	buffer := make([]byte, 1)
	if _, err := q.Write(buffer); err != nil {
		return err
	}
	_, err := q.Read(buffer)
	return err
}
