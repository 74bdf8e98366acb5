package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxParameters is the backend contract's.
const maxParameters = 32

// CheckParameterValue refuses a value that the backend contract does not take. An
// empty one is no value.
func CheckParameterValue(value string) error {
	switch {
	case len(value) > MaxParameterValue:
		return fmt.Errorf("the value is too long: %d bytes, at most %d", len(value), MaxParameterValue)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("the value must be UTF-8 without control characters, is %s", show(value))
	}
	return nil
}

// parameters checks where the values come from. Two parameters with one source are a
// mistake, also where the key of one is what the key of another is for a container.
func (v *validator) parameters(path string, all map[string]Parameter) {
	if len(all) > maxParameters {
		v.report(path, "at most %d parameters are possible, these are %d", maxParameters, len(all))
	}
	annotations, variables := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, at := all[name], fieldPath(path, name)
		v.check(at, checkParameterName(name))
		if p == (Parameter{}) && !v.broken[at] {
			v.report(at, "needs at least one of value, annotation, env")
		}
		v.check(at+".value", CheckParameterValue(p.Value))
		if p.Annotation != "" {
			v.check(at+".annotation", checkAnnotationKey(p.Annotation))
			v.source(at+".annotation", name, p.Annotation, annotations)
		}
		if p.Env != "" {
			v.check(at+".env", checkVariable(p.Env))
			v.source(at+".env", name, p.Env, variables)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		for base, name := range annotations {
			if container, ok := strings.CutPrefix(key, base+"."); ok {
				v.report(fieldPath(path, annotations[key])+".annotation",
					"%s is what the parameter %s has for a container named %s", show(key), name, show(container))
			}
		}
	}
}

// source notes that the parameter has its value from there, which no other may.
func (v *validator) source(path, name, key string, taken map[string]string) {
	if other, dup := taken[key]; dup {
		v.report(path, "%s is already the parameter %s's", show(key), other)
		return
	}
	taken[key] = name
}

func checkParameterName(name string) error {
	if !attributeSyntax.MatchString(name) {
		return fmt.Errorf("the name of a parameter must be letters, digits and underscores, not starting with a digit, at most 32, is %s", show(name))
	}
	return nil
}

func checkAnnotationKey(key string) error {
	if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
		return fmt.Errorf("%s is not the key of an annotation, such as example.com/program: %s", show(key), strings.Join(problems, "; "))
	}
	return nil
}

func checkVariable(name string) error {
	if !envSyntax.MatchString(name) {
		return fmt.Errorf("the name of a variable must be letters, digits and underscores, not starting with a digit, is %s", show(name))
	}
	return nil
}
