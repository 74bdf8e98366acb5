package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/accelmux/accelmux/core/text"
)

// firstLine bounds the handshake line, logLine a line of the log, in bytes.
const (
	firstLine = 8 << 10
	logLine   = 16 << 10
)

// output reads a program's standard output.
type output struct {
	file *os.File
	done chan struct{} // closed at the end of the output
	line chan string   // receives the first line, possibly incomplete

	mu    sync.Mutex
	extra int    // bytes after the first line
	begin string // the first of these bytes
}

func readOutput(file *os.File) *output {
	o := &output{file: file, done: make(chan struct{}), line: make(chan string, 1)}
	go o.read()
	return o
}

func (o *output) read() {
	defer close(o.done)
	var first []byte
	complete := false
	buffer := make([]byte, 32<<10)
	for {
		n, err := o.file.Read(buffer)
		part := buffer[:n]
		if !complete {
			head, rest, found := bytes.Cut(part, []byte("\n"))
			first, part = append(first, head...), rest
			if complete = found || err != nil || len(first) > firstLine; complete {
				o.line <- string(first[:min(len(first), firstLine)])
			}
		}
		o.mu.Lock()
		if o.begin == "" {
			o.begin = string(part[:min(len(part), 128)])
		}
		o.extra += len(part)
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// dirty returns an error if there is output after the first line.
func (o *output) dirty() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.extra == 0 {
		return nil
	}
	return fmt.Errorf("it printed %d bytes after the handshake, which begin with %q", o.extra, o.begin)
}

// close stops reading: a process outside of the group may hold the other end open.
func (o *output) close() {
	_ = o.file.Close()
	<-o.done
}

// logReader reads a program's standard error.
type logReader struct {
	file *os.File
	done chan struct{}

	mu    sync.Mutex
	lines int
	wrong error
	tail  []string // the last lines
}

func readLog(file *os.File) *logReader {
	l := &logReader{file: file, done: make(chan struct{})}
	go l.read()
	return l
}

func (l *logReader) read() {
	defer close(l.done)
	reader := bufio.NewReaderSize(l.file, logLine)
	for {
		line, err := reader.ReadSlice('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			l.take(text)
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (l *logReader) take(line []byte) {
	const tailLines = 3
	message, err := logMessage(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	if l.wrong == nil {
		l.wrong = err
	}
	if l.tail = append(l.tail, text.Printable(message, maxReason)); len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
}

// logMessage returns the message of a line, and an error if the line breaks the log format.
func logMessage(line []byte) (string, error) {
	if !utf8.Valid(line) {
		return string(line), fmt.Errorf("the line %q is not valid UTF-8", line[:min(len(line), 128)])
	}
	var object map[string]any
	if err := json.Unmarshal(line, &object); len(line) >= logLine || err != nil {
		return string(line), nil //nolint:nilerr // a line that is not JSON is text
	}
	level, isLevel := object["@level"].(string)
	message, isMessage := object["@message"].(string)
	switch {
	case !isLevel || !slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, level):
		return string(line), fmt.Errorf("the line %q is a JSON object whose @level is none of trace, debug, info, warn and error", line[:min(len(line), 128)])
	case !isMessage:
		return string(line), fmt.Errorf("the line %q is a JSON object without @message", line[:min(len(line), 128)])
	}
	if reason, ok := object["error"].(string); ok {
		message += ": " + reason
	}
	return message, nil
}

// last returns the last lines, for an error message.
func (l *logReader) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tail, " / ")
}

// judged returns the number of lines, and the error of the first wrong line.
func (l *logReader) judged() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, l.wrong
}

func (l *logReader) close() {
	_ = l.file.Close()
	<-l.done
}
