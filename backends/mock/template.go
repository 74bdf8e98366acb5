package mock

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// facts are what a template can use.
type facts struct {
	Index       int    // of the device, from 0, over all groups
	Number      int    // Index + 1
	GroupIndex  int    // of the device in its group, from 0
	GroupNumber int    // GroupIndex + 1
	ID          string // empty in the template of the ID itself
	EnvName     string // ID as a part of an environment variable's name
	Class       string
	Model       string
	UUID        string // made of the seed, Index and Partition
	NUMANode    int    // -1 if unknown
	PCIBusID    string
	Parent      string // ID of the partitioned device, or ""
	Partition   int    // from 0; 0 for a whole device
	Holder      string // ID of the holder, in the edits of Prepare; else empty
}

// maxRendered bounds what one template may produce, in bytes.
const maxRendered = 4096

// errTooLong ends a template that produces too much.
var errTooLong = fmt.Errorf("the text is too long: at most %d bytes", maxRendered)

// bounded is a writer with an end.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// render fills a template in. A text without {{ is itself.
func render(text string, f *facts, cache map[string]*template.Template) (string, error) {
	if !strings.Contains(text, "{{") {
		if len(text) > maxRendered {
			return "", errTooLong
		}
		return text, nil
	}
	t, ok := cache[text]
	if !ok {
		var err error
		if t, err = template.New("template").Option("missingkey=error").Parse(text); err != nil {
			return "", plainTemplateError(err)
		}
		if err := bound(t.Root); err != nil {
			return "", err
		}
		cache[text] = t
	}
	var out bounded
	if err := t.Execute(&out, f); err != nil {
		return "", plainTemplateError(err)
	}
	return out.String(), nil
}

// bound refuses what could run without end: a setting must not stop the process.
func bound(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, c := range n.Nodes {
			if err := bound(c); err != nil {
				return err
			}
		}
	case *parse.IfNode:
		return errors.Join(bound(n.List), bound(n.ElseList))
	case *parse.WithNode:
		return errors.Join(bound(n.List), bound(n.ElseList))
	case *parse.RangeNode, *parse.TemplateNode:
		return errors.New("range, template and block are not allowed here")
	}
	return nil
}

// plainTemplateError drops what every such error begins with.
func plainTemplateError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "template: "))
}

// envName makes a device ID a part of an environment variable's name: upper
// case, with every character but letters and digits replaced by "_", and
// without a leading "MOCK_".
func envName(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, id)
	return strings.TrimPrefix(name, "MOCK_")
}

// uuid is the same for the same device, always.
func uuid(seed uint64, index, partition int) string {
	var in [24]byte
	binary.BigEndian.PutUint64(in[0:], seed)
	binary.BigEndian.PutUint64(in[8:], uint64(index))      //nolint:gosec // never negative
	binary.BigEndian.PutUint64(in[16:], uint64(partition)) //nolint:gosec // never negative
	h := sha256.Sum256(in[:])
	h[6] = h[6]&0x0f | 0x80 // version 8: made by a rule of our own (RFC 9562)
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
