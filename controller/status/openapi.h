// A description of the HTTP interface: as OpenAPI for programs, as a page for people.
#ifndef BATON_CONTROLLER_STATUS_OPENAPI_H_
#define BATON_CONTROLLER_STATUS_OPENAPI_H_

#include <string>

namespace baton::status {

/// OpenAPI 3.0 as JSON: the routes of http_routes.h, and every message in their answers.
std::string OpenApiJson();

/// docs/http.md.
std::string HttpReferenceMarkdown();

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_OPENAPI_H_
