package httpapi

import (
	"mime"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// The structured form of /statusz and /flagz, as in the components of Kubernetes from 1.36 on.
const (
	zpagesGroup   = "config.k8s.io"
	zpagesVersion = "v1beta1"
)

// statuszReport is kind Statusz.
type statuszReport struct {
	Kind             string        `json:"kind"`
	APIVersion       string        `json:"apiVersion"`
	Metadata         zpageMetadata `json:"metadata"`
	StartTime        time.Time     `json:"startTime"`
	UptimeSeconds    int64         `json:"uptimeSeconds"`
	GoVersion        string        `json:"goVersion"`
	BinaryVersion    string        `json:"binaryVersion"`
	EmulationVersion string        `json:"emulationVersion,omitempty"` // never: the sidecar emulates none
	Paths            []string      `json:"paths"`
}

// flagzReport is kind Flagz.
type flagzReport struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   zpageMetadata     `json:"metadata"`
	Flags      map[string]string `json:"flags"`
}

type zpageMetadata struct {
	Name string `json:"name"`
}

// The forms of a z-page.
const (
	formText = "text/plain"
	formJSON = "application/json"
	formYAML = "application/yaml"
)

// zpageForm returns the form that a client accepts first; empty: it accepts none, and got 406.
func (s *Server) zpageForm(w http.ResponseWriter, r *http.Request, kind string) string {
	accept := r.Header.Values("Accept")
	if len(accept) == 0 {
		return formText
	}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, err := mime.ParseMediaType(part)
		structured := params["g"] == zpagesGroup && params["v"] == zpagesVersion && params["as"] == kind
		switch {
		case err != nil || params["q"] == "0":
		case media == "*/*" || media == "text/*" || media == formText:
			return formText
		case structured && (media == formJSON || media == formYAML):
			return media
		}
	}
	s.problem(w, http.StatusNotAcceptable, "this page is available as text/plain, and for programs as "+
		formJSON+" or "+formYAML+" with the parameters v="+zpagesVersion+";g="+zpagesGroup+";as="+kind)
	return ""
}

// replyZpage writes a page in a structured form.
func (s *Server) replyZpage(w http.ResponseWriter, form string, page any) {
	body := indented(page)
	if form == formYAML {
		text, err := yaml.JSONToYAML([]byte(body))
		if err != nil {
			panic(err) // it is JSON
		}
		body = string(text)
	}
	w.Header().Set("Content-Type", form)
	s.reply(w, http.StatusOK, body)
}
