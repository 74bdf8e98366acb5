package openfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/time/rate"
)

const (
	// FDKey is the environment variable with the number of the socket's descriptor.
	FDKey = "PLUGIN_OPEN_FILES_FD"
	// MaxNodes bounds the device nodes of a request.
	MaxNodes = 256
	// MaxProcesses bounds the processes of an answer.
	MaxProcesses = 256
	// maxMessage bounds a message, in bytes.
	maxMessage = 64 << 10
	// maxError bounds the text of an error, in characters.
	maxError = 1024
	// limit bounds a scan, and then again the time until the program reads the answer.
	limit = 10 * time.Second
	// A scan takes some milliseconds of the agent's: a program gets perSecond, and burst at once.
	perSecond, burst = 10, 64
)

// request asks which processes have one of the nodes open.
type request struct {
	// ID is any number; the answer has the same.
	ID    int64    `json:"id"`
	Nodes []string `json:"nodes"`
}

// answer is that of one request. An error is for the operator.
type answer struct {
	ID        int64     `json:"id"`
	Processes Processes `json:"processes,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Serve answers the requests of a program, one after the other, until the program closes its end of the socket
// or ctx ends, and closes conn. The scan gets nodes as the program names them.
func Serve(ctx context.Context, conn net.Conn, scan func(ctx context.Context, nodes []string) (Processes, error)) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	pace := rate.NewLimiter(perSecond, burst)
	for {
		text, err := receive(conn)
		if err != nil || pace.Wait(ctx) != nil {
			return
		}
		if err := conn.SetWriteDeadline(time.Now().Add(2 * limit)); err != nil {
			return
		}
		if send(conn, answerTo(ctx, text, scan)) != nil {
			return
		}
	}
}

func answerTo(ctx context.Context, text []byte, scan func(context.Context, []string) (Processes, error)) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var r request
	err := errors.New("the message is too long")
	if len(text) <= maxMessage {
		err = json.Unmarshal(text, &r)
	}
	a.ID = r.ID
	switch {
	case err != nil:
		err = fmt.Errorf("read the request: %w", err)
	case len(r.Nodes) > MaxNodes:
		err = fmt.Errorf("the request has %d nodes; at most %d are possible", len(r.Nodes), MaxNodes)
	default:
		a.Processes, err = scan(ctx, r.Nodes)
	}
	if err != nil {
		a.Error = fmt.Sprintf("%.*s", maxError, err) // json's have parts of the request
	}
	return a
}

// receive reads a message. Of one that is too long it returns maxMessage+1 bytes.
func receive(conn net.Conn) ([]byte, error) {
	text := make([]byte, maxMessage+1)
	n, err := conn.Read(text)
	return text[:n], err
}

func send(conn net.Conn, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("the message has %d bytes; at most %d are possible", len(text), maxMessage)
	}
	_, err = conn.Write(text)
	return err
}
