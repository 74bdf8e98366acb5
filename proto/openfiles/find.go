package openfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// Find returns the other processes that have one of the device nodes open, in ascending order, at most
// [MaxProcesses]. At most [MaxNodes] nodes are possible, as paths that links in /proc/PID/fd have. It asks the
// agent if this process has inherited a socket for that; otherwise it scans procfs. It fails when ctx ends, after
// 20 s without an answer of the agent, and if a process could not be inspected, which may have a node open. It is
// safe for concurrent use.
func Find(ctx context.Context, procfs string, nodes ...string) (Processes, error) {
	agent, err := inherited()
	switch {
	case err != nil:
		return nil, err
	case agent == nil:
		return Scan(ctx, procfs, os.Getpid(), nodes...)
	}
	return agent.ask(ctx, nodes)
}

// inherited returns the socket of this process; nil if it has none.
var inherited = sync.OnceValues(func() (*client, error) { return open(os.Getenv(FDKey)) })

// client is a program's end of the socket.
type client struct {
	conn net.Conn
	lock chan struct{} // held by the one request at a time
	last int64         // the ID of the last request
}

func open(number string) (*client, error) {
	if number == "" {
		return nil, nil //nolint:nilnil // documented
	}
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the agent's socket: %s: %w", FDKey, err)
	}
	file := os.NewFile(uintptr(fd), "agent")
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil { // conn is a copy that no child inherits
		return nil, fmt.Errorf("the agent's socket: %w", err)
	}
	return &client{conn: conn, lock: make(chan struct{}, 1)}, nil
}

// ask sends a request and returns the answer.
func (c *client) ask(ctx context.Context, nodes []string) (Processes, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return nil, fmt.Errorf("ask the agent for processes: %w", ctx.Err())
	}
	c.last++
	deadline, _ := ctx.Deadline()
	err := c.conn.SetDeadline(deadline)
	if err == nil {
		err = send(c.conn, request{c.last, nodes})
	}
	for err == nil {
		var text []byte
		if text, err = receive(c.conn); err != nil {
			break
		}
		var a answer
		switch err = json.Unmarshal(text, &a); {
		case err != nil || a.ID != c.last: // of an earlier request that exceeded its deadline
		case a.Error != "":
			return nil, errors.New(a.Error)
		default:
			return a.Processes, nil
		}
	}
	return nil, fmt.Errorf("ask the agent for processes: %w", err)
}
