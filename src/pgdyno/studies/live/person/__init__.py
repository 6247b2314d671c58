"""The person in the loop of a live study: questions, who may answer them, and what is kept in the end."""
