package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// tool is the program nvidia-smi.
type tool struct{ program string }

// errUnknownField is what an nvidia-smi says of a field that it does not have, for
// want of years.
var errUnknownField = errors.New("this nvidia-smi does not know the field")

// says is what nvidia-smi prints; the error has what it complained of.
func (t tool) says(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, t.program, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	said := strings.TrimSpace(stdout.String() + stderr.String()) // it complains on both
	if strings.Contains(said, "is not a valid field to query") {
		return "", errUnknownField
	}
	if err != nil {
		first, _, _ := strings.Cut(said, "\n")
		return "", fmt.Errorf("nvidia-smi %s: %w: %q", strings.Join(args, " "), err, first)
	}
	return stdout.String(), nil
}

// query is one field of all GPUs, by UUID.
func (t tool) query(ctx context.Context, field string) (map[string]string, error) {
	said, err := t.says(ctx, "--query-gpu=uuid,"+field, "--format=csv,noheader")
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(said) {
		if uuid, value, ok := strings.Cut(strings.TrimSpace(line), ", "); ok {
			values[uuid] = absent(value)
		}
	}
	return values, nil
}

// report asks for everything that is in one answer.
func (t tool) report(ctx context.Context) (report, error) {
	said, err := t.says(ctx, "-q", "-x")
	if err != nil {
		return report{}, err
	}
	r, err := parse([]byte(said))
	if err != nil {
		return report{}, fmt.Errorf("what nvidia-smi -q -x says: %w", err)
	}
	return r, nil
}

// report is what nvidia-smi -q -x says, by the names of nvsmi_device_v12.dtd. For a
// field that a GPU lacks nvidia-smi writes N/A.
type report struct {
	gpus   []element
	driver string
	cuda   string
}

// element is an XML element.
type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []element `xml:",any"`
}

// at is the text of the element at the path; ok is false if there is none.
func (e element) at(path string) (text string, ok bool) {
	found, ok := e.find(path)
	return strings.TrimSpace(found.Text), ok
}

func (e element) find(path string) (element, bool) {
	name, rest, deeper := strings.Cut(path, "/")
	for _, child := range e.Children {
		if child.XMLName.Local == name {
			if deeper {
				return child.find(rest)
			}
			return child, true
		}
	}
	return element{}, false
}

// said is the text at the first of the paths that there is; N/A is none. A field
// whose group is N/A as a whole is N/A. The error is errUnknownField.
func (e element) said(paths ...string) (string, error) {
	for _, path := range paths {
		if text, ok := e.at(path); ok {
			return absent(text), nil
		}
		if group, _, nested := strings.Cut(path, "/"); nested {
			if text, ok := e.at(group); ok && text == "N/A" {
				return "", nil
			}
		}
	}
	return "", fmt.Errorf("%w: there is no <%s> in <%s>", errUnknownField, strings.Join(paths, "> or <"), e.XMLName.Local)
}

func absent(text string) string {
	switch text {
	case "N/A", "[N/A]", "[Not Supported]", "None", "":
		return ""
	}
	return text
}

// number is the number before the unit.
func number(text string) (float64, error) {
	digits, _, _ := strings.Cut(text, " ")
	return strconv.ParseFloat(digits, 64)
}

func parse(text []byte) (report, error) {
	var log element
	if err := xml.Unmarshal(text, &log); err != nil {
		return report{}, err
	}
	var r report
	var errs []error
	count := ""
	for path, to := range map[string]*string{"driver_version": &r.driver, "cuda_version": &r.cuda, "attached_gpus": &count} {
		said, err := log.said(path)
		errs, *to = append(errs, err), said
	}
	for _, child := range log.Children {
		if child.XMLName.Local == "gpu" {
			r.gpus = append(r.gpus, child)
		}
	}
	if count != strconv.Itoa(len(r.gpus)) {
		errs = append(errs, fmt.Errorf("%s GPUs are attached, and %d are told of", count, len(r.gpus)))
	}
	return r, errors.Join(errs...)
}
