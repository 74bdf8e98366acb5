package main

import (
	"bytes"
	"strings"
	"sync"
)

// kubeletLog keeps the last of what kubelet logs, and counts what matters.
type kubeletLog struct {
	mu    sync.Mutex
	rest  []byte // of a line
	lines []string
	twice int
}

// keptLines is how many lines are kept.
const keptLines = 60

func (l *kubeletLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.rest = rest
		// It is logged where the connection is made, and once more where the
		// registration is refused.
		if bytes.Contains(line, []byte("Failed to connect to new client")) && bytes.Contains(line, []byte("device plugin already connected")) {
			l.twice++
		}
		if l.lines = append(l.lines, string(line)); len(l.lines) > keptLines {
			l.lines = l.lines[1:]
		}
	}
}

func (l *kubeletLog) duplicates() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.twice
}

func (l *kubeletLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
