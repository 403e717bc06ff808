package report

import "fmt"

// Trouble is the failure of the newest request to the API server, since the last answer that
// shows that the API can be used. The zero Trouble: there is none.
type Trouble struct {
	Code    int    // of the answer; 0: there was none
	Refused bool   // the API server rejects the user: 401 or 403
	Request string // like `GET https://127.0.0.1:6443/api/v1/namespaces`
	Detail  string // the API server's answer, or why there was none
}

// String is the request and its failure.
func (t Trouble) String() string {
	if t.Code != 0 {
		return fmt.Sprintf("%s: %d: %s", t.Request, t.Code, t.Detail)
	}
	return t.Request + ": " + t.Detail
}
