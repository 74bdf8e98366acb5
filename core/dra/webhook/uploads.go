package webhook

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// errCrowded is the error of a request that gave way to others.
var errCrowded = errors.New("too many requests are being received at a time")

// uploads are the bodies of requests, in memory until they are reviewed. They are received without a place
// for a review, of which there are few: a client that never sends the rest of its body would keep that
// place. Beyond max bytes, the body that is being received for longest gives way: the API server sends its
// bodies in one go.
type uploads struct {
	max int

	mu        sync.Mutex
	held      int       // bytes of all bodies
	receiving []*upload // the longest first
}

// upload is the body of one request.
type upload struct {
	held int
	// end makes the next Read of the body fail.
	end   func()
	ended bool
}

// receive reads a body. The caller calls done when it needs the body no more, also after an error.
func (u *uploads) receive(w http.ResponseWriter, from io.Reader) (body []byte, done func(), err error) {
	one := &upload{end: func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) }}
	u.mu.Lock()
	u.receiving = append(u.receiving, one)
	u.mu.Unlock()
	done = func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.drop(one)
	}
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		if !u.add(one, n) {
			return nil, done, errCrowded
		}
		body = append(body, piece[:n]...)
		if err == io.EOF {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.receiving = slices.DeleteFunc(u.receiving, func(other *upload) bool { return other == one })
			return body, done, nil
		}
		if err != nil {
			return nil, done, err
		}
	}
}

// add counts what was received, and makes room for it. It returns false if the upload has given way itself.
func (u *uploads) add(one *upload, n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one.ended {
		return false
	}
	u.held, one.held = u.held+n, one.held+n
	for u.held > u.max && !one.ended { // it is one of those that are being received
		longest := u.receiving[0]
		u.drop(longest)
		longest.ended = true
		longest.end()
	}
	return !one.ended
}

// drop needs the lock.
func (u *uploads) drop(one *upload) {
	u.receiving = slices.DeleteFunc(u.receiving, func(other *upload) bool { return other == one })
	u.held, one.held = u.held-one.held, 0
}
