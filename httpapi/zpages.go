package httpapi

import (
	"fmt"
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

// zpageHead begins the structured form.
type zpageHead struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   map[string]string `json:"metadata"`
}

func newZpageHead(kind string) zpageHead {
	return zpageHead{kind, zpagesGroup + "/" + zpagesVersion, map[string]string{"name": "lockstep"}}
}

type statuszReport struct {
	zpageHead
	StartTime     time.Time `json:"startTime"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
	GoVersion     string    `json:"goVersion"`
	BinaryVersion string    `json:"binaryVersion"`
	Paths         []string  `json:"paths"`
}

type flagzReport struct {
	zpageHead
	Flags map[string]string `json:"flags"`
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

// zpage answers with a text for people, or with the structured form of a kind.
func (s *Server) zpage(w http.ResponseWriter, r *http.Request, kind, text string, structured any) {
	form, body := s.zpageForm(w, r, kind), indented(structured)
	switch form {
	case "":
		return
	case formText:
		healthText(w)
		s.reply(w, http.StatusOK, fmt.Sprintf(zpagesHead, strings.ToLower(kind))+text)
		return
	case formYAML:
		converted, err := yaml.JSONToYAML([]byte(body))
		if err != nil {
			panic(err) // it is JSON
		}
		body = string(converted)
	}
	w.Header().Set("Content-Type", form)
	s.reply(w, http.StatusOK, body)
}

// zpagesHead opens the text, in the form of Kubernetes components.
const zpagesHead = "\nlockstep %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n\n"
