package report

// Problem is an error in the form of RFC 9457, application/problem+json.
type Problem struct {
	Type   string `json:"type"` // always about:blank: the status code says all
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}
