package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// report is what nvidia-smi -q -x says, by the names of nvsmi_device_v12.dtd. Every
// field must be there: one that was renamed is no field that a GPU lacks, for which
// nvidia-smi writes N/A.
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
// whose group is N/A as a whole is N/A.
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
	return "", fmt.Errorf("there is no <%s> in <%s>", strings.Join(paths, "> or <"), e.XMLName.Local)
}

func absent(text string) string {
	switch text {
	case "N/A", "[N/A]", "None", "":
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
