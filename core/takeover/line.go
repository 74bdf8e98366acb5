package takeover

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"
	"time"
)

const (
	// lockName and socketName are files in the directory that is taken.
	lockName   = "lock"
	socketName = "handover.sock"
	// maxMessage bounds one message, in bytes.
	maxMessage = 64 << 10
	// writeLimit bounds the writing of one, to a peer that does not read.
	writeLimit = 5 * time.Second
)

// message is one line; usually one field is set.
type message struct {
	// Ready: the successor could take over at once.
	Ready bool `json:"ready,omitempty"`
	// Failing are backends that do not work at the successor; with Ready.
	Failing []string `json:"failing,omitempty"`
	// Taken: the successor has taken over.
	Taken bool `json:"taken,omitempty"`
	// Leaving: the active agent is about to end.
	Leaving bool `json:"leaving,omitempty"`
	// Hello: who this is; the first word of both sides.
	Hello *Peer `json:"hello,omitempty"`
	// Yours: the active agent has let go.
	Yours bool `json:"yours,omitempty"`
}

// line is one end of a connection.
type line struct {
	conn net.Conn
	mu   sync.Mutex // serialises writes
}

// send writes one message. A peer that is gone shows in listen.
func (l *line) send(m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	_, err = l.conn.Write(append(text, '\n'))
	return err
}

// listen calls take with every message until that wants no more, the connection ends, or
// a message makes no sense.
func (l *line) listen(take func(message) (more bool)) {
	scanner := bufio.NewScanner(l.conn)
	scanner.Buffer(make([]byte, 0, 1024), maxMessage)
	for scanner.Scan() {
		var m message
		if json.Unmarshal(scanner.Bytes(), &m) != nil || !take(m) {
			return
		}
	}
}
