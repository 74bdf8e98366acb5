package main

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// kind is what a request is for.
type kind int

const (
	watchNode kind = iota
	writeEvent
	kinds
)

// request is one that was sent to the server.
type request struct {
	at   time.Time
	kind kind
	// code is what the server answered with; 0 if nobody did.
	code int
}

// traffic is what goes between the agents and the server, as seen by the agents.
type traffic struct {
	mu       sync.Mutex
	requests []request
	watching int
	// began are the moments at which watches were answered.
	began []time.Time
}

// transport counts what goes through another one.
type transport struct {
	inner   http.RoundTripper
	traffic *traffic
}

func (t *traffic) wrap(inner http.RoundTripper) http.RoundTripper { return transport{inner, t} }

// WrappedRoundTripper is how client-go finds the connections to close.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.inner }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := request{at: time.Now(), kind: writeEvent}
	if r.URL.Query().Get("watch") != "" {
		sent.kind = watchNode
	}
	answer, err := t.inner.RoundTrip(r)
	if err == nil {
		sent.code = answer.StatusCode
	}
	t.traffic.mu.Lock()
	defer t.traffic.mu.Unlock()
	t.traffic.requests = append(t.traffic.requests, sent)
	if sent.kind == watchNode && sent.code == http.StatusOK {
		t.traffic.watching++
		t.traffic.began = append(t.traffic.began, time.Now())
		answer.Body = &stream{ReadCloser: answer.Body, ended: t.traffic.ended}
	}
	return answer, err
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	once  sync.Once
	ended func()
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.once.Do(s.ended)
	}
	return n, err
}

func (s *stream) Close() error {
	s.once.Do(s.ended)
	return s.ReadCloser.Close()
}

func (t *traffic) ended() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching--
}

// running is how many watches run.
func (t *traffic) running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watching
}

// summary is the traffic of a phase.
type summary struct {
	answered [kinds]int
	// unanswered reached nobody; turnedAway were too many for the server, which
	// said so with 429 Too Many Requests.
	unanswered, turnedAway int
	// peak is the most requests in any second that the server answered.
	peak int
	// half and all say when half of the watches that began in the phase had, and
	// when the last.
	half, all time.Duration
}

// since sums up what was sent after a moment.
func (t *traffic) since(start time.Time) summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	var s summary
	var answered, began []time.Time
	for _, r := range t.requests {
		switch {
		case r.at.Before(start):
		case r.code == 0:
			s.unanswered++
		default:
			if r.code == http.StatusTooManyRequests {
				s.turnedAway++
			}
			s.answered[r.kind]++
			answered = append(answered, r.at)
		}
	}
	s.peak = peak(answered)
	for _, at := range t.began {
		if at.After(start) {
			began = append(began, at)
		}
	}
	slices.SortFunc(began, time.Time.Compare)
	if n := len(began); n > 0 {
		s.half, s.all = began[n/2].Sub(start), began[n-1].Sub(start)
	}
	return s
}

// peak is the most moments within any second.
func peak(moments []time.Time) int {
	slices.SortFunc(moments, time.Time.Compare)
	most, first := 0, 0
	for i, at := range moments {
		for at.Sub(moments[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
