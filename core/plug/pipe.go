package plug

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/accelmux/accelmux/core/text"
)

const (
	// handshakeLine bounds the first line of standard output, in bytes; a
	// certificate takes about one thousand.
	handshakeLine = 8 << 10
	// logLine bounds a line of standard error, in bytes; longer lines are cut.
	logLine = 16 << 10
	// logMessage and logValue bound the logged message and fields, in bytes, and logFields
	// the number of fields.
	logMessage, logValue, logFields = 4 << 10, 1 << 10, 32
	// readRate bounds how much of a stream is read in a second, in bytes. It is more than a
	// log needs, and takes little processor time to discard. A backend that writes more
	// blocks in its pipe.
	readRate = 4 << 20
)

// throttle limits the rate at which a stream is read, until its context ends.
type throttle struct {
	ctx   context.Context
	bytes *rate.Limiter
}

func newThrottle(ctx context.Context) *throttle {
	return &throttle{ctx, rate.NewLimiter(readRate, readRate)}
}

// take counts n bytes, and waits if they exceed the rate.
func (t *throttle) take(n int) {
	_ = t.bytes.WaitN(t.ctx, min(n, readRate)) // it fails at the end
}

// handshakePipe is a backend's standard output: go-plugin reads one line of bounded length,
// the rest is discarded, so that output of a library neither disturbs the handshake nor
// blocks the backend.
type handshakePipe struct {
	file *os.File
	ctx  context.Context // until it is closed
	end  context.CancelFunc

	// discarded counts the bytes after the line.
	discarded excess

	mu   sync.Mutex
	line []byte
	// complete: the line has ended, or reading failed.
	complete bool
}

func newHandshakePipe(file *os.File) *handshakePipe {
	ctx, end := context.WithCancel(context.Background())
	return &handshakePipe{file: file, ctx: ctx, end: end}
}

// Read reads up to the end of the first line, then io.EOF.
func (h *handshakePipe) Read(buffer []byte) (int, error) {
	h.mu.Lock()
	complete, room := h.complete, handshakeLine-len(h.line)
	h.mu.Unlock()
	if complete || room <= 0 {
		return 0, io.EOF
	}
	n, err := h.file.Read(buffer[:min(len(buffer), room)])
	if i := bytes.IndexByte(buffer[:n], '\n'); i >= 0 {
		n, err = i+1, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line = append(h.line, buffer[:n]...)
	if err != nil || bytes.HasSuffix(h.line, []byte("\n")) || len(h.line) >= handshakeLine {
		h.complete = true
		go h.discard()
	}
	if err != nil {
		return n, io.EOF // any error ends the line
	}
	return n, nil
}

// discard empties the pipe until it is closed.
func (h *handshakePipe) discard() {
	limit := newThrottle(h.ctx)
	buffer := make([]byte, 32<<10)
	for {
		n, err := h.file.Read(buffer)
		if err != nil {
			return
		}
		h.discarded.add(n)
		limit.take(n)
	}
}

// first returns the handshake line, or what was printed instead.
func (h *handshakePipe) first() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.line)
}

func (h *handshakePipe) close() {
	h.end()
	_ = h.file.Close()
}

// Close does nothing: go-plugin calls it, but only the process closes the pipe.
func (h *handshakePipe) Close() error { return nil }

// logPipe is a backend's standard error: its lines become log records, bounded in length
// and number.
type logPipe struct {
	log  *slog.Logger
	file *os.File
	ctx  context.Context // until it is closed
	end  context.CancelFunc
	done chan struct{} // closed when the pipe has ended
	// lost counts lines beyond the rate, cut the bytes beyond a line's maximum length.
	lost, cut excess

	mu      sync.Mutex
	lines   *rate.Limiter
	dropped int
	// likely is the message that most likely explains the end of the process, and gravity
	// its rank.
	likely  string
	gravity int
}

func newLogPipe(log *slog.Logger, perSecond, burst int) *logPipe {
	ctx, end := context.WithCancel(context.Background())
	return &logPipe{
		log: log, lines: rate.NewLimiter(rate.Limit(perSecond), burst),
		ctx: ctx, end: end, done: make(chan struct{}),
	}
}

// open starts reading.
func (l *logPipe) open(file *os.File) {
	l.file = file
	go l.read()
}

func (l *logPipe) close() {
	l.end()
	_ = l.file.Close()
}

// read reads to the end of the pipe. Lines beyond the rate are counted and not parsed.
func (l *logPipe) read() {
	defer close(l.done)
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reportDropped()
	}()
	limit := newThrottle(l.ctx)
	reader := bufio.NewReaderSize(l.file, logLine)
	inPanic := false
	for {
		line, err := reader.ReadSlice('\n')
		limit.take(len(line))
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line)
			err = l.skipLine(reader, limit)
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			inPanic = l.accept(line, inPanic)
		}
		if err != nil {
			return
		}
	}
}

// skipLine reads the rest of a line that is too long.
func (l *logPipe) skipLine(reader *bufio.Reader, limit *throttle) error {
	for {
		rest, err := reader.ReadSlice('\n')
		l.cut.add(len(rest))
		limit.take(len(rest))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// fatal matches the first line of the Go runtime's report before it ends a process: of a
// panic, a runtime error, a failure in C code, or a signal. Stacks and registers follow.
var fatal = regexp.MustCompile(`^(panic|fatal error|runtime/cgo|SIG[A-Z]+): `)

// accept logs one line, if it is within the rate.
func (l *logPipe) accept(line []byte, inPanic bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lines.Allow() {
		l.dropped++
		l.lost.add(1)
		return inPanic
	}
	l.reportDropped()
	record := parseLine(line)
	if record.raw && fatal.MatchString(record.message) {
		l.remember(record.message, 3)
		inPanic = true
	}
	if record.raw && inPanic {
		record.level = slog.LevelError
	}
	switch {
	case record.level >= slog.LevelError:
		l.remember(record.message, 2)
	case record.raw:
		l.remember(record.message, 1)
	}
	l.log.LogAttrs(context.Background(), record.level, record.message, record.fields...)
	return inPanic
}

func (l *logPipe) reportDropped() {
	if l.dropped > 0 {
		l.log.Warn("dropped lines of the backend's log", "lines", l.dropped, "limit_per_second", float64(l.lines.Limit()))
		l.dropped = 0
	}
}

// remember stores the message if it more likely explains the end of the process: the first
// panic, else the last error, else the last line. The caller holds the mutex, as for
// reportDropped.
func (l *logPipe) remember(message string, gravity int) {
	if gravity > l.gravity || gravity == l.gravity && gravity < 3 {
		l.likely, l.gravity = message, gravity
	}
}

// relevant returns the message that most likely explains the end of the process; "" if
// there is none.
func (l *logPipe) relevant() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return text.Printable(l.likely, 300)
}

// writer returns a writer for log lines that do not come through the pipe. It is for one
// goroutine.
func (l *logPipe) writer() io.Writer { return &lineWriter{to: l, limit: newThrottle(l.ctx)} }

type lineWriter struct {
	to    *logPipe
	line  []byte
	limit *throttle
}

// Write never fails. The part of a line beyond the limit is dropped.
func (w *lineWriter) Write(data []byte) (int, error) {
	w.limit.take(len(data))
	for part := range bytes.Lines(data) {
		text, ends := bytes.CutSuffix(part, []byte("\n"))
		w.line = append(w.line, text[:min(len(text), logLine-len(w.line))]...)
		if ends {
			if len(w.line) > 0 {
				w.to.accept(w.line, false)
			}
			w.line = w.line[:0]
		}
	}
	return len(data), nil
}

// logRecord is one line of a backend's log.
type logRecord struct {
	level   slog.Level
	message string
	fields  []slog.Attr
	raw     bool // not in hclog's JSON
}

// parseLine reads hclog's JSON, as the contract describes it; any other line becomes a
// message of level debug.
func parseLine(line []byte) logRecord {
	raw := logRecord{level: slog.LevelDebug, message: text.Printable(string(line), logMessage), raw: true}
	if line[0] != '{' {
		return raw
	}
	var object map[string]any
	if json.Unmarshal(line, &object) != nil {
		return raw
	}
	message, ok := object["@message"].(string)
	if !ok {
		return raw
	}
	record := logRecord{level: slog.LevelDebug, message: text.Printable(message, logMessage)}
	if level, ok := object["@level"].(string); ok {
		record.level = levels[level]
	}
	for _, name := range []string{"@message", "@level", "@timestamp", "@module", "@caller"} {
		delete(object, name)
	}
	for name, value := range object {
		if len(record.fields) == logFields {
			break
		}
		record.fields = append(record.fields, slog.String(fieldName(name), text.Printable(fmt.Sprint(value), logValue)))
	}
	return record
}

// fieldName returns the name under which a field of a backend is logged: not one that a record has itself, such as the message
// or what the core logs with its own.
func fieldName(name string) string {
	name = text.Printable(name, 64)
	if slices.Contains([]string{slog.TimeKey, slog.LevelKey, slog.MessageKey, slog.SourceKey, "backend"}, name) {
		return name + "_"
	}
	return name
}

// levels are hclog's; an unknown one becomes info, the zero level of slog.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError,
}
