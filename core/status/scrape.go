package status

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// scraping answers scrapes, and other requests for all devices. It prepares a bounded number of answers at once, because each
// takes the memory of all metrics or devices. A finished answer is stored compressed and no longer
// counts while it is sent, so a client that does not read does not block others.
type scraping struct {
	// handler sends gzip to clients that accept it.
	handler http.Handler
	places  chan struct{}
}

// atOnce returns what makes handlers prepare a bounded number of answers at once, all of them together.
func atOnce() func(http.Handler) http.Handler {
	places := make(chan struct{}, scrapes)
	return func(handler http.Handler) http.Handler { return &scraping{places: places, handler: handler} }
}

// packed compresses what a handler answers.
func packed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		packer := gzip.NewWriter(w)
		defer func() { _ = packer.Close() }() // the client may have gone
		handler.ServeHTTP(packedWriter{w, packer}, r)
	})
}

// packedWriter is a [http.ResponseWriter] that compresses the body.
type packedWriter struct {
	http.ResponseWriter
	packer *gzip.Writer
}

func (p packedWriter) Write(b []byte) (int, error) { return p.packer.Write(b) }

// ServeHTTP implements [http.Handler].
func (s *scraping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait := time.NewTimer(scrapeWait)
	defer wait.Stop()
	select {
	case s.places <- struct{}{}:
	case <-wait.C:
		http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		return
	case <-r.Context().Done():
		return
	}
	a := s.make(r)
	maps.Copy(w.Header(), a.header)
	if a.header.Get("Content-Encoding") != "gzip" || acceptsGzip(r) {
		w.WriteHeader(a.code)
		_, _ = a.body.WriteTo(w) // the client may have gone
		return
	}
	w.Header().Del("Content-Encoding")
	w.WriteHeader(a.code)
	if plain, err := gzip.NewReader(&a.body); err == nil {
		_, _ = io.Copy(w, plain) // the client may have gone
	}
}

// make prepares the answer to a request, and then frees its place.
func (s *scraping) make(r *http.Request) *scrapeAnswer {
	defer func() { <-s.places }()
	packed := r.Clone(r.Context())
	packed.Header.Set("Accept-Encoding", "gzip")
	a := &scrapeAnswer{header: http.Header{}, code: http.StatusOK}
	s.handler.ServeHTTP(a, packed)
	return a
}

func acceptsGzip(r *http.Request) bool {
	for encoding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(encoding, " ", ""), ";")
		if name == "gzip" {
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}

// scrapeAnswer is a [http.ResponseWriter] that stores the answer.
type scrapeAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *scrapeAnswer) Header() http.Header         { return a.header }
func (a *scrapeAnswer) WriteHeader(code int)        { a.code = code }
func (a *scrapeAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }
